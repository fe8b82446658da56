// Package arguments has the arguments of the plugin as they are configured (kind QuartermasterArgs), their defaults and
// what is wrong with them, and what devices are chosen by with that configuration.
package arguments
