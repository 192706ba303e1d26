"""Playbooks: what is one, which one fits, and how is a new one learnt?"""
