"""How answers were filled, from traces: orders, branch wins, and one filling shown step by step."""
