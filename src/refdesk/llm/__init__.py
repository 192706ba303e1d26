"""Who thinks?  Gemini, any OpenAI-compatible endpoint, Anthropic, the client's own model, or rules."""
