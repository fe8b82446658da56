// Package image unpacks the container image that `make image` builds and runs the scheduler from it: with the image as its root
// directory, as the user that the image names, and with nothing of this machine but its network.
package image
