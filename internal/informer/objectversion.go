package informer

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Newer reports whether version a of an object is known to be newer than version b. Of
// versions that are not well-formed nothing is known.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// AtLeast reports whether version a of an object is known to be as new as version b, or newer.
func AtLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}
