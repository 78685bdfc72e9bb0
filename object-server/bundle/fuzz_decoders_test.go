package bundle
