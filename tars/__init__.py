"""tars: a personal conversational agent whose memory is a folder of markdown notes."""

__version__ = "0.1.0"
