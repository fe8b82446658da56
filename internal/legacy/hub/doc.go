// Package hub converts claims, classes and slices of the alpha versions to v1 and back. v1 is
// the hub of all versions; what the alpha versions know and v1 does not, objects of the hub
// have in an annotation, see AlphaClaim and AlphaClass.
package hub
