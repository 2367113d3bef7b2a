// swift-tools-version:5.5
import PackageDescription

let package = Package(
    name: "Strata",
    platforms: [.macOS(.v12), .iOS(.v15)],
    products: [.library(name: "Strata", targets: ["Strata"])],
    targets: [
        .systemLibrary(name: "CStrata", pkgConfig: "strata"),
        .target(name: "Strata", dependencies: ["CStrata"]),
        .executableTarget(name: "check", dependencies: ["Strata"]),
    ]
)
