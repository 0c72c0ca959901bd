CREATE TABLE inspection (
    digest TEXT NOT NULL,
    modality TEXT NOT NULL,
    derivation TEXT NOT NULL,
    limits_digest TEXT NOT NULL,
    document TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (digest, modality, derivation, limits_digest)
);
CREATE TABLE run (
    id TEXT NOT NULL,
    bundle_id TEXT NOT NULL,
    bundle_digest TEXT NOT NULL,
    tenant TEXT NOT NULL,
    engine TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at FLOAT NOT NULL,
    ended_at FLOAT,
    boot_id TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX run_state ON run (state);
CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE attempt (
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    question_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    draft BLOB,
    result TEXT,
    started_at FLOAT NOT NULL,
    ended_at FLOAT,
    boot_id TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (run_id, question_id, number),
    FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX attempt_open ON attempt (run_id) WHERE state = 'open';
CREATE TABLE question (
    run_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    question_id TEXT NOT NULL,
    labels TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT,
    PRIMARY KEY (run_id, position),
    UNIQUE (run_id, question_id),
    FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE TABLE receipt (
    position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    question_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    outcome TEXT NOT NULL,
    question_digest TEXT,
    identity TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    document BLOB NOT NULL,
    UNIQUE (id),
    UNIQUE (attempt_id),
    FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE INDEX ix_receipt_run_id ON receipt (run_id);
CREATE INDEX receipt_answer ON receipt (question_digest, identity, tenant);
CREATE TABLE outbox (
    position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    receipt_id TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    delivered_at FLOAT,
    UNIQUE (receipt_id),
    FOREIGN KEY(receipt_id) REFERENCES receipt (id)
);
INSERT INTO schema_version VALUES (1);
