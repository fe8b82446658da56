// Package demand learns which requests for devices are likely to come, from what pods asked for before.
package demand
