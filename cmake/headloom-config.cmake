# The library hides its dependencies, so there is nothing to find beside it.
include("${CMAKE_CURRENT_LIST_DIR}/headloom-targets.cmake")
