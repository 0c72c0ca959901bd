"""Values, rules, state machines and documents. Pure: no I/O, no clock, no logging, no Prefect."""
