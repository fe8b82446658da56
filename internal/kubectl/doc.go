// Package kubectl has the commands of kubectl devices, one file each, and their common parts: where objects are
// read from, how results are printed, and exit statuses. The analysis is in pkg/whatif and internal/kubectl/facts.
package kubectl
