"""The only room that draws: text, JSON, the SVG timeline, one self-contained HTML page."""
