// Package config decodes and validates the plugin's arguments in a KubeSchedulerConfiguration (kind
// QuartermasterArgs), sets their defaults, and derives the objectives that choose nodes and devices.
package config
