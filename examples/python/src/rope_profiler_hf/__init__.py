"""Capture, apply and evaluation for Hugging Face transformers, beside the program rope-profiler."""

__version__ = "0.1.0"
