// Package kubectldevices runs the commands of kubectl devices in the cluster of make demo, as somebody who may read
// everything and as somebody who may read little.
//
// It takes a minute: the cluster of the demo has to come up and to settle before the commands are tried.
package kubectldevices
