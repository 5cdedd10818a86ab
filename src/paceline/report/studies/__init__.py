"""The results of studies as text, Markdown and JSON: certificates, explanations, comparisons, replays, audits.

Only rendering: what is found out stands in `studies` and `analysis`.
"""
