//! What runs for the agent inside a session: the MCP server and the client of the session's tools.
