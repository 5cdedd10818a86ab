"""Does `paceline verify` see the mistakes that people make? Each is made in real frameworks, and then looked for."""
