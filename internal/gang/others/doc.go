// Package others has the other plugins of kube-scheduler judge where the pods of a gang may be: CPU and memory, ports,
// affinity, volumes, and whatever else the profile has Filter plugins for. Pods that were placed before count.
package others
