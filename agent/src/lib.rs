//! What runs for the agent inside a session: the client of the session's tools, and the MCP server on top of it.
//!
//! Nothing in here holds a right that the agent does not have. Everything goes to the launcher as one request line over the
//! session's tools socket, and the launcher decides.

pub mod client;
pub mod mcp;
pub mod render;
