"""From the images of a data set to the batches of a recipe: the same for all frameworks and any number of devices."""
