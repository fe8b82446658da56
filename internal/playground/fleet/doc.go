// Package fleet is the hardware of a simulated cluster: nodes, and what DRA drivers
// would publish for them. The shapes are those of real drivers: attributes and
// capacities as they name them, one pool per node named after it, PCIe roots under the
// standard attribute, devices that a whole rack or every node reaches. Everything is
// deterministic: the same call gives the same objects, with the same UUIDs.
package fleet
