// Package kubectldevices runs make demo, and the commands of kubectl devices in its cluster: as somebody who may read
// everything and as somebody who may read little. The scenarios of the demo are tested here, and not by other tests as well.
//
// It takes a minute: some scenarios show what a pod waits for, and how long that takes.
package kubectldevices
