"""The taught posteriors over the weights of a layer, one a file."""
