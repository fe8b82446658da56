// Package kubectldevices runs the commands of kubectl devices in the cluster of make demo, as somebody who may read
// everything and as somebody who may read little.
package kubectldevices
