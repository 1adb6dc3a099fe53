"""The broker, its ranks and questions to them, for every face. Nothing that needs a terminal or talks to people."""
