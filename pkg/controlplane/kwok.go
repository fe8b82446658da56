package controlplane
type simulatedNodes struct{}
