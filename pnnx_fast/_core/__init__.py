"""Bindings of the C core: convert, check, release the GIL, raise. No policy lives here."""
