// Package extendedresource handles pods whose containers ask for devices by the name of an extended
// resource (KEP-5004). It finds the device classes behind the names and the nodes where devices
// must back them, and makes the claim that the scheduler creates for the pod.
//
// It knows neither the devices nor their holders. It does not decide which node a pod gets, or when
// its claim is written and released.
package extendedresource
