// Package fleet has the hardware of a simulated cluster: nodes, and the slices that DRA drivers would publish for
// them. They resemble those of real drivers: the same names of attributes and capacities, one pool per node named
// after it, PCIe roots under the standard attribute, devices that a whole rack or every node reaches. Everything is
// deterministic: the same call returns the same objects, with the same UUIDs.
package fleet
