//! Confinement: Landlock, seccomp, notification, namespaces, descriptors, limits, roles.
