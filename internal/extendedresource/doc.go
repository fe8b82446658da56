// Package extendedresource is about pods whose containers ask for devices by the name of an
// extended resource (KEP-5004): which device classes stand for these, on which nodes devices
// have to back them, and the claim that the scheduler makes for the pod there.
//
// It knows neither which devices there are nor who holds them, and does not decide which node a
// pod gets or when its claim is written and released.
package extendedresource
