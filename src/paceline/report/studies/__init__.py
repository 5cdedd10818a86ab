"""The results of studies as text, Markdown and JSON: certificates, explanations, comparisons, replays, audits.

Only rendering: finding out is the business of `studies` and `analysis`.
"""
