// Package conversion converts claims, classes and slices of the alpha versions to v1 and back. v1 is the hub of all
// versions; hub objects have fields that only the alpha versions know in an annotation, see AlphaClaim and
// AlphaClass.
package conversion
