"""What does it mean?  The shipped static model, and others behind the same port."""
