"""What a clinic asks of a model beside how well it ranks."""
