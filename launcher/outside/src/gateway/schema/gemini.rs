//! Gemini `generateContent`, `streamGenerateContent` and `countTokens`. Its JSON is that of protocol buffers, where camel and
//! snake case are the same: only the spellings that agents were seen to use are read, and camel case is written.

use super::super::shape::{Field, Object, Shape, may, must, object};
use super::TOKENS;

/// `:generateContent` and `:streamGenerateContent`; the model is in the path.
pub(crate) static GENERATE: Object = object(&[
    CONTENTS,
    SYSTEM,
    TOOLS,
    TOOL_CONFIG,
    may("generationConfig", Shape::Object(&GENERATION)).also("generation_config"),
    may(
        "safetySettings",
        Shape::List(&Shape::Object(&object(&[
            must("category", Shape::Word),
            must("threshold", Shape::Word),
        ]))),
    ),
]);

/// `:countTokens`.
pub(crate) static COUNT_TOKENS: Object = object(&[CONTENTS]);

static ANY_CONTENT: Shape = Shape::Object(&CONTENT);
static ANY_TOOL: Shape = Shape::Object(&TOOL);
static CALLING_CONFIG: Object = object(&[may("functionCallingConfig", Shape::Object(&CALLING))]);
const CONTENTS: Field = must("contents", Shape::List(&ANY_CONTENT));
const SYSTEM: Field = may("systemInstruction", Shape::Object(&CONTENT)).also("system_instruction");
const TOOLS: Field = may("tools", Shape::List(&ANY_TOOL));
const TOOL_CONFIG: Field = may("toolConfig", Shape::Object(&CALLING_CONFIG));

static CONTENT: Object = object(&[
    may("role", Shape::OneOf(&["user", "model", "system", "function"])),
    must(
        "parts",
        Shape::Either(&[Shape::List(&Shape::Object(&PART)), Shape::Object(&PART)]),
    ),
]);

static PART: Object = object(&[
    may("text", Shape::Text),
    may("thought", Shape::Bool),
    may("thoughtSignature", Shape::Text),
    may(
        "functionCall",
        Shape::Object(&object(&[
            may("id", Shape::Text),
            must("name", Shape::Name),
            may("args", Shape::OpaqueObject),
        ])),
    ),
    may(
        "functionResponse",
        Shape::Object(&object(&[
            may("id", Shape::Text),
            must("name", Shape::Name),
            may("response", Shape::OpaqueObject),
            may(
                "parts",
                Shape::List(&Shape::Object(&object(&[must("inlineData", Shape::Object(&INLINE))]))),
            ),
        ])),
    ),
    may("inlineData", Shape::Object(&INLINE)).also("inline_data"),
]);

static INLINE: Object = object(&[
    must(
        "mimeType",
        Shape::OneOf(&[
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
            "image/heic",
            "image/heif",
            "application/pdf",
            "text/plain",
        ]),
    )
    .also("mime_type"),
    must("data", Shape::Base64),
]);

/// Every other kind of tool is hosted or remote: the key is the kind.
static TOOL: Object = object(&[must(
    "functionDeclarations",
    Shape::List(&Shape::Object(&object(&[
        must("name", Shape::Name),
        may("description", Shape::Text),
        may("parametersJsonSchema", Shape::Schema),
        may("parameters", Shape::OpenApi),
    ]))),
)]);

static CALLING: Object = object(&[
    may(
        "mode",
        Shape::OneOf(&["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"]),
    ),
    may("allowedFunctionNames", Shape::List(&Shape::Name)),
]);

static GENERATION: Object = object(&[
    may("temperature", Shape::Number),
    may("topP", Shape::Number),
    may("topK", Shape::Number),
    may("maxOutputTokens", TOKENS),
    may("stopSequences", Shape::List(&Shape::Text)),
    may("seed", Shape::Number),
    may("candidateCount", Shape::Only("1")),
    may(
        "responseMimeType",
        Shape::OneOf(&["text/plain", "application/json", "text/x.enum"]),
    ),
    may("responseJsonSchema", Shape::Schema),
    may("responseSchema", Shape::OpenApi),
    may(
        "thinkingConfig",
        Shape::Object(&object(&[
            may("includeThoughts", Shape::Bool),
            may("thinkingBudget", Shape::Number),
            may(
                "thinkingLevel",
                Shape::OneOf(&[
                    "THINKING_LEVEL_UNSPECIFIED",
                    "MINIMAL",
                    "LOW",
                    "MEDIUM",
                    "HIGH",
                    "minimal",
                    "low",
                    "medium",
                    "high",
                ]),
            ),
        ])),
    ),
]);
