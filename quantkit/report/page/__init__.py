"""Pages as values, and their forms: HTML, Markdown, figures."""
