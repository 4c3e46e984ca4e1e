//! OpenAI Responses.

use super::super::shape::{Field, Object, Shape, Tagged, dropped, may, must, object};
use super::{EFFORTS, EMPTY, FILE_TYPES, GRAMMAR, IMAGE_TYPES, JSON_SCHEMA_FIELDS, STREAM_OPTIONS, TOKENS};

/// `POST /v1/responses`. The provider keeps an answer for weeks unless `store` is false, so it is added.
pub(crate) static RESPONSES: Object = Object {
    fields: &[
        must("model", Shape::Model),
        must(
            "input",
            Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&ITEM))]),
        ),
        may("instructions", Shape::Text).or_null(),
        may("tools", Shape::List(&Shape::Tagged(&TOOL))),
        may(
            "tool_choice",
            Shape::Either(&[Shape::OneOf(&["auto", "none", "required"]), Shape::Tagged(&CHOICE)]),
        ),
        may("parallel_tool_calls", Shape::Bool).or_null(),
        may("reasoning", Shape::Object(&REASONING)).or_null(),
        may("text", Shape::Object(&TEXT)).or_null(),
        may("stream", Shape::Bool),
        may("store", Shape::Only("false")),
        may("include", Shape::List(&Shape::OneOf(&["reasoning.encrypted_content"]))),
        may("prompt_cache_key", Shape::Text).or_null(),
        may("max_output_tokens", TOKENS).or_null(),
        may("temperature", Shape::Number).or_null(),
        may("top_p", Shape::Number).or_null(),
        may("truncation", Shape::OneOf(&["auto", "disabled"])).or_null(),
        may("stream_options", Shape::Object(&STREAM_OPTIONS)).or_null(),
        // Codex: session and installation identifiers, paths and commits of the workspace.
        dropped("client_metadata"),
    ],
    inject: &[("store", "false")],
};

/// Codex's notes on its own items, with identifiers of hooks; the provider does without.
const PRIVATE: Field = dropped("internal_chat_message_metadata_passthrough");
const ID: Field = may("id", Shape::Text).or_null();
const STATUS: Field = may("status", Shape::OneOf(&["in_progress", "completed", "incomplete"])).or_null();
const NAMESPACE: Field = may("namespace", Shape::Name).or_null();
const CALL_ID: Field = must("call_id", Shape::Text);

static ITEM: Tagged = Tagged {
    tag: "type",
    what: "input item",
    variants: &[
        ("message", &MESSAGE),
        (
            "reasoning",
            &object(&[
                ID,
                must("summary", Shape::List(&Shape::Tagged(&SUMMARY))),
                may("content", Shape::List(&Shape::Tagged(&REASONING_TEXT))).or_null(),
                may("encrypted_content", Shape::Text).or_null(),
                STATUS,
                PRIVATE,
            ]),
        ),
        (
            "function_call",
            &object(&[
                must("name", Shape::Name),
                must("arguments", Shape::Text),
                CALL_ID,
                NAMESPACE,
                STATUS,
                ID,
                PRIVATE,
            ]),
        ),
        ("function_call_output", &OUTPUT),
        (
            "custom_tool_call",
            &object(&[
                must("name", Shape::Name),
                must("input", Shape::Text),
                CALL_ID,
                NAMESPACE,
                STATUS,
                ID,
                PRIVATE,
            ]),
        ),
        ("custom_tool_call_output", &OUTPUT),
        (
            "local_shell_call",
            &object(&[
                CALL_ID,
                must("action", Shape::Tagged(&SHELL_ACTION)),
                STATUS,
                ID,
                PRIVATE,
            ]),
        ),
        (
            "local_shell_call_output",
            &object(&[
                ID,
                may("call_id", Shape::Text),
                must("output", Shape::Text),
                STATUS,
                PRIVATE,
            ]),
        ),
        (
            "additional_tools",
            &object(&[
                ID,
                may("role", Shape::OneOf(&["developer"])),
                must("tools", Shape::List(&Shape::Tagged(&TOOL))),
                PRIVATE,
            ]),
        ),
        (
            "configuration_update",
            &object(&[
                ID,
                must(
                    "reasoning",
                    Shape::Object(&object(&[must("effort", Shape::OneOf(EFFORTS))])),
                ),
                PRIVATE,
            ]),
        ),
    ],
    // A bare id would be a reference to a stored item: role and content have to be there.
    untagged: Some(&MESSAGE),
};

static MESSAGE: Object = object(&[
    must("role", Shape::OneOf(&["user", "assistant", "system", "developer"])),
    must(
        "content",
        Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&CONTENT))]),
    ),
    ID,
    STATUS,
    PRIVATE,
]);

static OUTPUT: Object = object(&[
    CALL_ID,
    must(
        "output",
        Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&CONTENT))]),
    ),
    may("name", Shape::Name).or_null(),
    STATUS,
    ID,
    PRIVATE,
]);

static CONTENT: Tagged = Tagged {
    tag: "type",
    what: "content part",
    variants: &[
        ("input_text", &TEXT_PART),
        (
            "output_text",
            &object(&[
                must("text", Shape::Text),
                may("annotations", EMPTY),
                may("logprobs", EMPTY).or_null(),
            ]),
        ),
        ("summary_text", &TEXT_PART),
        ("reasoning_text", &TEXT_PART),
        ("refusal", &object(&[must("refusal", Shape::Text)])),
        (
            "input_image",
            &object(&[
                must("image_url", Shape::Data(IMAGE_TYPES)),
                may("detail", Shape::OneOf(&["auto", "low", "high", "original"])).or_null(),
            ]),
        ),
        (
            "input_file",
            &object(&[may("filename", Shape::Text), must("file_data", Shape::Data(FILE_TYPES))]),
        ),
    ],
    untagged: None,
};
static TEXT_PART: Object = object(&[must("text", Shape::Text)]);
static SUMMARY: Tagged = Tagged {
    tag: "type",
    what: "part of a summary",
    variants: &[("summary_text", &TEXT_PART)],
    untagged: None,
};
static REASONING_TEXT: Tagged = Tagged {
    tag: "type",
    what: "part of a reasoning",
    variants: &[("reasoning_text", &TEXT_PART), ("text", &TEXT_PART)],
    untagged: None,
};
static SHELL_ACTION: Tagged = Tagged {
    tag: "type",
    what: "shell action",
    variants: &[(
        "exec",
        &object(&[
            must("command", Shape::List(&Shape::Text)),
            may("timeout_ms", Shape::Whole(u64::MAX)).or_null(),
            may("working_directory", Shape::Text).or_null(),
            may("env", Shape::OpaqueObject).or_null(),
            may("user", Shape::Text).or_null(),
        ]),
    )],
    untagged: None,
};

// Wherever a tool may be declared, it is this union: at the top, in an item, in a namespace, in a namespace of a namespace.
static TOOL: Tagged = Tagged {
    tag: "type",
    what: "tool",
    variants: &[
        ("function", &FUNCTION),
        ("custom", &CUSTOM),
        (
            "namespace",
            &object(&[
                NAME,
                DESCRIPTION,
                must("tools", Shape::List(&Shape::Tagged(&INNER_TOOL))),
            ]),
        ),
    ],
    untagged: None,
};
static INNER_TOOL: Tagged = Tagged {
    tag: "type",
    what: "tool of a namespace",
    variants: &[
        ("function", &FUNCTION),
        ("custom", &CUSTOM),
        (
            "namespace",
            &object(&[
                NAME,
                DESCRIPTION,
                must("tools", Shape::List(&Shape::Tagged(&LEAF_TOOL))),
            ]),
        ),
    ],
    untagged: None,
};
static LEAF_TOOL: Tagged = Tagged {
    tag: "type",
    what: "tool of a nested namespace",
    variants: &[("function", &FUNCTION), ("custom", &CUSTOM)],
    untagged: None,
};
const NAME: Field = must("name", Shape::Name);
const DESCRIPTION: Field = may("description", Shape::Text).or_null();
static FUNCTION: Object = object(&[
    NAME,
    DESCRIPTION,
    may("strict", Shape::Bool).or_null(),
    may("parameters", Shape::Schema).or_null(),
]);
static CUSTOM: Object = object(&[
    NAME,
    DESCRIPTION,
    may(
        "format",
        Shape::Tagged(&Tagged {
            tag: "type",
            what: "format of a custom tool",
            variants: &[("text", &object(&[])), ("grammar", &GRAMMAR)],
            untagged: None,
        }),
    ),
]);
static CHOICE: Tagged = Tagged {
    tag: "type",
    what: "tool choice",
    variants: &[("function", &object(&[NAME])), ("custom", &object(&[NAME]))],
    untagged: None,
};

static REASONING: Object = object(&[
    may("effort", Shape::OneOf(EFFORTS)).or_null(),
    may("summary", Shape::OneOf(&["auto", "concise", "detailed", "none"])).or_null(),
    may("context", Shape::OneOf(&["all_turns", "current_turn", "auto"])).or_null(),
]);
static TEXT: Object = object(&[
    may("verbosity", Shape::OneOf(&["low", "medium", "high"])).or_null(),
    may(
        "format",
        Shape::Tagged(&Tagged {
            tag: "type",
            what: "text format",
            variants: &[
                ("text", &object(&[])),
                ("json_object", &object(&[])),
                ("json_schema", &object(&JSON_SCHEMA_FIELDS)),
            ],
            untagged: None,
        }),
    )
    .or_null(),
]);
