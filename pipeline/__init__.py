"""The way of one question, of one shard and of one run: async, no Prefect. The only place that sees all stages."""
