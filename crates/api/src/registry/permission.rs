//! What a caller of the registry may do.

use std::collections::BTreeSet;

use crate::access::Role;

/// One kind of operation on the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Reads applications, endpoints and event types.
    Read,
    /// Reads messages and attempts.
    ReadMessages,
    /// Reads the secrets of endpoints.
    ReadSecrets,
    /// Rotates the secrets of endpoints.
    RotateSecrets,
    /// Creates, changes and deletes endpoints, and what belongs to the organisation.
    Manage,
    /// Sends messages again, and sends examples.
    Resend,
    /// Publishes messages, and removes their payloads.
    Publish,
}

posthaste_domain::named_variants!(Permission {
    Read => "read",
    ReadMessages => "read_messages",
    ReadSecrets => "read_secrets",
    RotateSecrets => "rotate_secrets",
    Manage => "manage",
    Resend => "resend",
    Publish => "publish",
});

/// The permissions of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionSet(BTreeSet<Permission>);

impl PermissionSet {
    /// Every permission.
    pub fn all() -> Self {
        Permission::ALL.iter().copied().collect()
    }

    /// The permissions of an application's own user: everything but publishing, which is the organisation's.
    pub fn of_application() -> Self {
        Permission::ALL.iter().copied().filter(|permission| *permission != Permission::Publish).collect()
    }

    /// The permissions of a user who may only look. Secrets are not shown.
    pub fn read_only() -> Self {
        [Permission::Read, Permission::ReadMessages].into_iter().collect()
    }

    /// The permissions of an API key with this role.
    pub(crate) fn of_role(role: Role) -> Self {
        match role {
            Role::Operator | Role::App => Self::all(),
            Role::Viewer => Self::read_only(),
            Role::Producer => [Permission::ReadMessages, Permission::Publish].into_iter().collect(),
        }
    }

    pub fn contains(&self, permission: Permission) -> bool {
        self.0.contains(&permission)
    }

    /// The permissions in their order.
    pub fn iter(&self) -> impl Iterator<Item = Permission> {
        self.0.iter().copied()
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().collect())
    }
}
