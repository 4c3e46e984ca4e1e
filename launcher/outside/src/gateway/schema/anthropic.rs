//! Anthropic Messages and its token count.

use super::super::shape::{Field, Object, Shape, Tagged, may, must, object};
use super::{EFFORTS, EMPTY, IMAGE_TYPES, TOKENS};

/// Beta features that reach the provider; all others are left out of the header. The field checks are the guard: a beta
/// enables fields, and no field that could reach out is accepted.
pub(crate) const BETAS: &[&str] = &[
    "claude-code-20250219",
    "interleaved-thinking-2025-05-14",
    "context-management-2025-06-27",
    "thinking-token-count-2026-05-13",
    "advanced-tool-use-2025-11-20",
    "effort-2025-11-24",
    "per-turn-control-2026-07-01",
    "context-1m-2025-08-07",
    "structured-outputs-2025-11-13",
];

/// `POST /v1/messages`.
pub(crate) static MESSAGES: Object = object(&[
    must("model", Shape::Model),
    must("messages", Shape::List(&Shape::Tagged(&MESSAGE))),
    SYSTEM,
    TOOLS,
    TOOL_CHOICE,
    THINKING,
    OUTPUT_CONFIG,
    CONTEXT_MANAGEMENT,
    METADATA,
    must("max_tokens", TOKENS),
    may("stream", Shape::Bool),
    may("temperature", Shape::Number),
    may("top_p", Shape::Number),
    may("top_k", TOKENS),
    may("stop_sequences", Shape::List(&Shape::Text)),
]);

/// `POST /v1/messages/count_tokens`.
pub(crate) static COUNT_TOKENS: Object = object(&[
    must("model", Shape::Model),
    must("messages", Shape::List(&Shape::Tagged(&MESSAGE))),
    SYSTEM,
    TOOLS,
    TOOL_CHOICE,
    THINKING,
    OUTPUT_CONFIG,
    CONTEXT_MANAGEMENT,
]);

const SYSTEM: Field = may("system", TEXT_OR_BLOCKS);
static ANY_TOOL: Shape = Shape::Tagged(&TOOL);
const TOOLS: Field = may("tools", Shape::List(&ANY_TOOL));
const TOOL_CHOICE: Field = may("tool_choice", Shape::Tagged(&CHOICE));
const THINKING: Field = may("thinking", Shape::Tagged(&THOUGHT));
const OUTPUT_CONFIG: Field = may("output_config", Shape::Object(&OUTPUT));
const CONTEXT_MANAGEMENT: Field = may("context_management", Shape::Object(&CONTEXT));
/// The agents put device, account and session identifiers into it.
const METADATA: Field = may("metadata", Shape::OpaqueObject).replaced(r#"{"user_id":"picktwo"}"#);

const TEXT_OR_BLOCKS: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&TEXT_BLOCK))]);
const CACHE: Field = may("cache_control", Shape::Tagged(&CACHE_CONTROL)).or_null();
static CACHE_CONTROL: Tagged = Tagged {
    tag: "type",
    what: "cache control",
    variants: &[("ephemeral", &object(&[may("ttl", Shape::OneOf(&["5m", "1h"]))]))],
    untagged: None,
};

static MESSAGE: Tagged = Tagged {
    tag: "role",
    what: "message",
    variants: &[("user", &TURN), ("assistant", &TURN), ("system", &SYSTEM_TURN)],
    untagged: None,
};
static TURN: Object = object(&[must(
    "content",
    Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&BLOCK))]),
)]);
/// Claude Code changes the effort in the middle of a conversation with such a message.
static SYSTEM_TURN: Object = object(&[
    must("content", TEXT_OR_BLOCKS),
    may(
        "output_config",
        Shape::Object(&object(&[may("effort", Shape::OneOf(EFFORTS))])),
    ),
]);

static TEXT_BLOCK: Tagged = Tagged {
    tag: "type",
    what: "text block",
    variants: &[("text", &TEXT)],
    untagged: None,
};
static BLOCK: Tagged = Tagged {
    tag: "type",
    what: "content block",
    variants: &[
        ("text", &TEXT),
        (
            "thinking",
            &object(&[must("thinking", Shape::Text), may("signature", Shape::Text), CACHE]),
        ),
        ("redacted_thinking", &object(&[must("data", Shape::Text)])),
        ("tool_use", &TOOL_USE),
        ("tool_result", &TOOL_RESULT),
        ("tool_reference", &TOOL_REFERENCE),
        ("image", &IMAGE),
        ("document", &DOCUMENT),
    ],
    untagged: None,
};
static RESULT_BLOCK: Tagged = Tagged {
    tag: "type",
    what: "block of a tool result",
    variants: &[
        ("text", &TEXT),
        ("image", &IMAGE),
        ("document", &DOCUMENT),
        ("tool_reference", &TOOL_REFERENCE),
    ],
    untagged: None,
};
static TEXT: Object = object(&[must("text", Shape::Text), CACHE, may("citations", EMPTY).or_null()]);
static TOOL_USE: Object = object(&[
    must("id", Shape::Text),
    must("name", Shape::Name),
    must("input", Shape::OpaqueObject),
    CACHE,
    may(
        "caller",
        Shape::Tagged(&Tagged {
            tag: "type",
            what: "caller",
            variants: &[("direct", &object(&[]))],
            untagged: None,
        }),
    ),
]);
static TOOL_RESULT: Object = object(&[
    must("tool_use_id", Shape::Text),
    may(
        "content",
        Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&RESULT_BLOCK))]),
    ),
    may("is_error", Shape::Bool),
    CACHE,
]);
static TOOL_REFERENCE: Object = object(&[must("tool_name", Shape::Name), CACHE]);
static IMAGE: Object = object(&[
    must(
        "source",
        Shape::Tagged(&Tagged {
            tag: "type",
            what: "source of an image",
            variants: &[(
                "base64",
                &object(&[
                    must("media_type", Shape::OneOf(IMAGE_TYPES)),
                    must("data", Shape::Base64),
                ]),
            )],
            untagged: None,
        }),
    ),
    CACHE,
]);
static DOCUMENT: Object = object(&[
    must(
        "source",
        Shape::Tagged(&Tagged {
            tag: "type",
            what: "source of a document",
            variants: &[
                (
                    "base64",
                    &object(&[
                        must("media_type", Shape::OneOf(&["application/pdf"])),
                        must("data", Shape::Base64),
                    ]),
                ),
                (
                    "text",
                    &object(&[
                        must("media_type", Shape::OneOf(&["text/plain"])),
                        must("data", Shape::Text),
                    ]),
                ),
            ],
            untagged: None,
        }),
    ),
    CACHE,
]);

/// Tools without a type, or of the type `custom`, are executed by the agent by definition.
static TOOL: Tagged = Tagged {
    tag: "type",
    what: "tool",
    variants: &[("custom", &CLIENT_TOOL)],
    untagged: Some(&CLIENT_TOOL),
};
static CLIENT_TOOL: Object = object(&[
    must("name", Shape::Name),
    may("description", Shape::Text),
    must("input_schema", Shape::Schema),
    CACHE,
    may("defer_loading", Shape::Bool),
    may("eager_input_streaming", Shape::Bool),
    may("strict", Shape::Bool),
    may("input_examples", Shape::List(&Shape::OpaqueObject)),
    may("allowed_callers", Shape::List(&Shape::OneOf(&["direct"]))),
]);

static CHOICE: Tagged = Tagged {
    tag: "type",
    what: "tool choice",
    variants: &[
        ("auto", &object(&[PARALLEL])),
        ("any", &object(&[PARALLEL])),
        ("none", &object(&[])),
        ("tool", &object(&[must("name", Shape::Name), PARALLEL])),
    ],
    untagged: None,
};
const PARALLEL: Field = may("disable_parallel_tool_use", Shape::Bool);

static THOUGHT: Tagged = Tagged {
    tag: "type",
    what: "thinking",
    variants: &[
        ("enabled", &object(&[must("budget_tokens", TOKENS), DISPLAY])),
        ("adaptive", &object(&[DISPLAY])),
        ("disabled", &object(&[])),
    ],
    untagged: None,
};
const DISPLAY: Field = may("display", Shape::OneOf(&["omitted", "summarized"]));

static OUTPUT: Object = object(&[
    may("effort", Shape::OneOf(EFFORTS)),
    may(
        "format",
        Shape::Tagged(&Tagged {
            tag: "type",
            what: "output format",
            variants: &[("json_schema", &object(&[must("schema", Shape::Schema)]))],
            untagged: None,
        }),
    ),
]);

static CONTEXT: Object = object(&[must(
    "edits",
    Shape::List(&Shape::Tagged(&Tagged {
        tag: "type",
        what: "context edit",
        variants: &[
            (
                "clear_thinking_20251015",
                &object(&[may(
                    "keep",
                    Shape::Either(&[Shape::OneOf(&["all"]), Shape::Tagged(&AMOUNT)]),
                )]),
            ),
            (
                "clear_tool_uses_20250919",
                &object(&[
                    may("trigger", Shape::Tagged(&AMOUNT)),
                    may("keep", Shape::Tagged(&AMOUNT)),
                    may("clear_at_least", Shape::Tagged(&AMOUNT)),
                    may("exclude_tools", Shape::List(&Shape::Name)),
                    may(
                        "clear_tool_inputs",
                        Shape::Either(&[Shape::Bool, Shape::List(&Shape::Name)]),
                    ),
                ]),
            ),
        ],
        untagged: None,
    })),
)]);
static AMOUNT: Tagged = Tagged {
    tag: "type",
    what: "amount",
    variants: &[
        ("input_tokens", &COUNT),
        ("tool_uses", &COUNT),
        ("thinking_turns", &COUNT),
    ],
    untagged: None,
};
static COUNT: Object = object(&[must("value", TOKENS)]);
