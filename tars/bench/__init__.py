"""Measuring search: questions with their evidence in, figures out. It knows no terminal and writes into no note."""
