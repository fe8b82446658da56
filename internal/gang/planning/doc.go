// Package planning plans a gang: which of its pods are alike, which nodes and domains are tried in which order, and what
// is said if it does not fit.
package planning
