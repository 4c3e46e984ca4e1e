//! OpenAI Chat Completions, also as spoken by compatible servers.

use super::super::shape::{Field, Object, Shape, Tagged, dropped, may, must, object};
use super::{EFFORTS, FILE_TYPES, GRAMMAR, IMAGE_TYPES, JSON_SCHEMA_FIELDS, STREAM_OPTIONS, TOKENS};

/// `POST /v1/chat/completions`.
pub(crate) static CHAT: Object = object(&[
    must("model", Shape::Model),
    must("messages", Shape::List(&Shape::Object(&MESSAGE))),
    may("tools", Shape::List(&Shape::Tagged(&TOOL))),
    may(
        "tool_choice",
        Shape::Either(&[Shape::OneOf(&["auto", "none", "required"]), Shape::Tagged(&CHOICE)]),
    ),
    may("parallel_tool_calls", Shape::Bool).or_null(),
    may("stream", Shape::Bool),
    may("stream_options", Shape::Object(&STREAM_OPTIONS)).or_null(),
    may("max_tokens", TOKENS).or_null(),
    may("max_completion_tokens", TOKENS).or_null(),
    may("temperature", Shape::Number).or_null(),
    may("top_p", Shape::Number).or_null(),
    may("frequency_penalty", Shape::Number).or_null(),
    may("presence_penalty", Shape::Number).or_null(),
    may("seed", Shape::Number).or_null(),
    may("stop", Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)])).or_null(),
    may("n", Shape::Only("1")).or_null(),
    may("reasoning_effort", Shape::OneOf(EFFORTS)).or_null(),
    may("verbosity", Shape::OneOf(&["low", "medium", "high"])).or_null(),
    may("response_format", Shape::Tagged(&FORMAT)).or_null(),
    may("store", Shape::Only("false")),
    may("prompt_cache_key", Shape::Text).or_null(),
]);

static MESSAGE: Object = object(&[
    must(
        "role",
        Shape::OneOf(&["system", "developer", "user", "assistant", "tool"]),
    ),
    may(
        "content",
        Shape::Either(&[Shape::Text, Shape::List(&Shape::Tagged(&PART))]),
    )
    .or_null(),
    may("name", Shape::Text),
    may("tool_calls", Shape::List(&Shape::Tagged(&CALL))).or_null(),
    may("tool_call_id", Shape::Text),
    may("refusal", Shape::Text).or_null(),
    may("reasoning_content", Shape::Text).or_null(),
    // Copilot's note on where a message came from.
    dropped("__copilotMessageSource"),
]);

static PART: Tagged = Tagged {
    tag: "type",
    what: "content part",
    variants: &[
        ("text", &object(&[must("text", Shape::Text)])),
        ("refusal", &object(&[must("refusal", Shape::Text)])),
        (
            "image_url",
            &object(&[must(
                "image_url",
                Shape::Object(&object(&[
                    must("url", Shape::Data(IMAGE_TYPES)),
                    may("detail", Shape::OneOf(&["auto", "low", "high"])).or_null(),
                ])),
            )]),
        ),
        (
            "file",
            &object(&[must(
                "file",
                Shape::Object(&object(&[
                    may("filename", Shape::Text),
                    must("file_data", Shape::Data(FILE_TYPES)),
                ])),
            )]),
        ),
    ],
    untagged: None,
};

static CALL: Tagged = Tagged {
    tag: "type",
    what: "tool call",
    variants: &[
        (
            "function",
            &object(&[
                ID,
                INDEX,
                must(
                    "function",
                    Shape::Object(&object(&[NAME, must("arguments", Shape::Text)])),
                ),
            ]),
        ),
        (
            "custom",
            &object(&[
                ID,
                INDEX,
                must("custom", Shape::Object(&object(&[NAME, must("input", Shape::Text)]))),
            ]),
        ),
    ],
    untagged: None,
};
const ID: Field = must("id", Shape::Text);
const INDEX: Field = may("index", Shape::Whole(10_000));
const NAME: Field = must("name", Shape::Name);
const DESCRIPTION: Field = may("description", Shape::Text).or_null();

static TOOL: Tagged = Tagged {
    tag: "type",
    what: "tool",
    variants: &[
        (
            "function",
            &object(&[must(
                "function",
                Shape::Object(&object(&[
                    NAME,
                    DESCRIPTION,
                    may("parameters", Shape::Schema).or_null(),
                    may("strict", Shape::Bool).or_null(),
                ])),
            )]),
        ),
        (
            "custom",
            &object(&[must(
                "custom",
                Shape::Object(&object(&[
                    NAME,
                    DESCRIPTION,
                    may(
                        "format",
                        Shape::Tagged(&Tagged {
                            tag: "type",
                            what: "format of a custom tool",
                            variants: &[
                                ("text", &object(&[])),
                                ("grammar", &object(&[must("grammar", Shape::Object(&GRAMMAR))])),
                            ],
                            untagged: None,
                        }),
                    ),
                ])),
            )]),
        ),
    ],
    untagged: None,
};

static CHOICE: Tagged = Tagged {
    tag: "type",
    what: "tool choice",
    variants: &[
        (
            "function",
            &object(&[must("function", Shape::Object(&object(&[NAME])))]),
        ),
        ("custom", &object(&[must("custom", Shape::Object(&object(&[NAME])))])),
    ],
    untagged: None,
};

static FORMAT: Tagged = Tagged {
    tag: "type",
    what: "response format",
    variants: &[
        ("text", &object(&[])),
        ("json_object", &object(&[])),
        (
            "json_schema",
            &object(&[must("json_schema", Shape::Object(&object(&JSON_SCHEMA_FIELDS)))]),
        ),
    ],
    untagged: None,
};
