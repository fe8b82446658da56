// Package devicescmd has the commands of kubectl devices, one file each, and what they have in common: where
// objects come from, how results are printed, and exit statuses. What is found out is in pkg/whatif and
// internal/devicefacts.
package devicescmd
