//! Granted connections of a retriever: what is decided ([`rules`]), what is read of its calls ([`call`]), and the sockets that
//! are made and connected on its behalf ([`sockets`]).

pub(crate) mod call;
pub(crate) mod rules;
pub(crate) mod sockets;
