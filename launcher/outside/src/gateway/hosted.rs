//! Names by which a model API offers to reach out, run code, load or keep something at the provider (GATEWAY §6).
//!
//! The table only chooses rule and advice of a refusal. What is accepted is decided by the closed objects in
//! [`super::schema`] alone: a name that is missing here is refused all the same.

/// A way by which the provider would act beyond answering.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Names; a trailing `*` stands for any rest.
    names: &'static [&'static str],
    /// Rule of the refusal.
    pub(crate) rule: &'static str,
    /// Completes "`name` …".
    pub(crate) what: &'static str,
    /// One sentence, or empty.
    pub(crate) instead: &'static str,
}

/// The way to the web that stays inside picktwo.
pub(crate) const WEB: &str = "use the tool web_fetch of the MCP server picktwo, or `picktwo fetch URL QUESTION` in a shell. \
    To keep the agent from asking: claude --disallowedTools WebSearch,WebFetch; codex -c web_search=\"disabled\"; \
    gemini: exclude google_web_search and web_fetch.";
const INLINE: &str = "send the content inline (base64), or fetch it with the tool web_fetch of the MCP server picktwo.";
const SHELL: &str = "run it with the agent's own shell tool.";
const MCP: &str = "configure the MCP server inside the session (stdio); for web pages use the tool web_fetch of the MCP server picktwo.";
const HISTORY: &str = "send the whole conversation in the request and store:false.";

static REACHES: &[Reach] = &[
    Reach {
        names: &[
            "web_search*",
            "web_fetch*",
            "webSearch*",
            "webFetch*",
            "openrouter:web*",
            "$web_search",
            "builtin_function",
            "google_search*",
            "googleSearch*",
            "enterpriseWebSearch",
            "enterprise_web_search",
            "exaAiSearch",
            "exa_ai_search",
            "parallelAiSearch",
            "parallel_ai_search",
            "urlContext",
            "url_context",
            "googleMaps",
            "google_maps",
            "plugins",
            "search_parameters",
            "enable_search",
            "search_options",
            "external_web_access",
            "retrievalConfig",
            "retrieval_config",
            "x_search",
            "browser*",
            "server_tool_use",
        ],
        rule: "hosted-tool",
        what: "makes the provider search or load the web",
        instead: WEB,
    },
    Reach {
        names: &[
            "code_execution*",
            "codeExecution*",
            "code_interpreter*",
            "executableCode",
            "executable_code",
            "bash_code_execution*",
            "text_editor_code_execution*",
            "shell*",
            "container*",
            "skills",
            "programmatic_tool_calling",
            "program*",
            "allowed_callers",
            "openrouter:*",
            "environment",
        ],
        rule: "hosted-tool",
        what: "runs code at the provider",
        instead: SHELL,
    },
    Reach {
        names: &[
            "mcp*",
            "server_url",
            "connector_id",
            "tunnel_id",
            "authorization",
            "headers",
            "streamableHttpTransport",
        ],
        rule: "hosted-tool",
        what: "connects the provider to a remote MCP server",
        instead: MCP,
    },
    Reach {
        names: &[
            "image_generation*",
            "advisor*",
            "fallbacks",
            "models",
            "route",
            "provider",
            "preset",
            "transforms",
            "prediction",
            "audio",
            "modalities",
            "input_audio",
            "extra_body",
            "compact_*",
            "compaction*",
            "context_management",
            "thread",
            "diagnostics",
            "service_tier",
            "moderation",
            "access_programs",
            "routingConfig",
            "modelArmorConfig",
            "model_selection",
        ],
        rule: "other-service",
        what: "asks the provider for another model, route or service than the one that the policy names",
        instead: "",
    },
    Reach {
        names: &["url", "file_url", "image_url", "fileUri", "file_uri"],
        rule: "remote-url",
        what: "makes the provider load an address",
        instead: INLINE,
    },
    Reach {
        names: &[
            "file",
            "file_id",
            "file_ids",
            "file_search*",
            "fileSearch*",
            "file_data",
            "fileData",
            "retrieval",
            "vector_store_ids",
            "cachedContent",
            "cached_content",
        ],
        rule: "stored",
        what: "makes the provider load something that is stored there",
        instead: INLINE,
    },
    Reach {
        names: &[
            "store",
            "previous_response_id",
            "conversation",
            "background*",
            "prompt",
            "item_reference",
            "labels",
            "metadata",
        ],
        rule: "stored",
        what: "keeps or takes up state at the provider",
        instead: HISTORY,
    },
    Reach {
        names: &[
            "tool_addition",
            "tool_removal",
            "tool_search*",
            "includeServerSideToolInvocations",
            "include_server_side_tool_invocations",
            "toolCall",
            "tool_call",
            "toolResponse",
            "tool_response",
            "codeExecutionResult",
            "computer*",
            "local_shell",
            "apply_patch",
            "bash_*",
            "text_editor_*",
            "memory_*",
            "computerUse",
            "computer_use",
        ],
        rule: "hosted-tool",
        what: "is a tool of the provider that no supported agent needs",
        instead: "",
    },
];

/// What a name would make the provider do, if it is known for that.
pub(crate) fn reach(name: &str) -> Option<&'static Reach> {
    REACHES.iter().find(|reach| {
        reach.names.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
    })
}
