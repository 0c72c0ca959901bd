CREATE TABLE lease (
    fence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    staged_name TEXT NOT NULL,
    holder TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    acquired_at FLOAT NOT NULL,
    ttl_s FLOAT NOT NULL,
    expires_at FLOAT NOT NULL,
    ended_at FLOAT,
    state TEXT NOT NULL,
    UNIQUE (id)
);
CREATE INDEX lease_holder ON lease (holder) WHERE state = 'active';
CREATE INDEX lease_expiry ON lease (expires_at) WHERE state = 'active';
CREATE INDEX lease_live ON lease (host, tenant, staged_name) WHERE state = 'active';
CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE staged_copy (
    host TEXT NOT NULL,
    tenant TEXT NOT NULL,
    staged_name TEXT NOT NULL,
    digest TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    state TEXT NOT NULL,
    staged_at FLOAT NOT NULL,
    PRIMARY KEY (host, tenant, staged_name)
);
INSERT INTO schema_version VALUES (1);
