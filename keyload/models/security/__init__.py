"""Authorisation in one place: who may do what, which rows and fields are seen, and who configures that."""
